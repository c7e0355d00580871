"""What both estimators share."""
