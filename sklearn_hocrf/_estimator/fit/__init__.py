"""Parameters, penalties, and the steps of training with their progress."""
