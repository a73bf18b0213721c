"""From running ranks to the last words."""
