"""What everyone speaks: ops, histories, schedules, verdicts, errors. Imports nothing else of ours."""
