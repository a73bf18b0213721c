"""What tests of several rooms share: starting ranks, checking for leaks, models of the collectives, cases."""
