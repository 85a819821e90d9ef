"""Rules of restarts that the controller applies to pods, and launchers to training processes. Pure."""
