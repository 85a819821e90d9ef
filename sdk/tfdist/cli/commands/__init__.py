"""The commands: declaration and body. `tfdist.cli.command_table` lists them, and a call imports the module of one."""
