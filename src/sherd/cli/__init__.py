"""The command line: it calls, it does not compute."""
