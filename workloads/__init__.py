"""What is asked of the broker, and which checkers that implies."""
