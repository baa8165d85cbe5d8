"""Those who call a node from another process: where it is, how it is asked, and what is shown to people."""
