"""The studio: a web page on which people put fragments together. It calls, it does not compute."""
