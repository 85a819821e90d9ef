"""The commands: declaration and body. `tfdist.cli.app` lists them, and a call imports the module of one."""
