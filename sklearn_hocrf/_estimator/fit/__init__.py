"""Parameters, penalties, and the steps and progress of training."""
