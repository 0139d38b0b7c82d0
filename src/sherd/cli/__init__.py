"""The command line: thin, it calls and does not compute."""
