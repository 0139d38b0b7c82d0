"""Networks of the compared systems, one file each."""
