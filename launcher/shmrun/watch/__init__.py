"""From running ranks to the summary."""
