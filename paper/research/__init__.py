"""What serves the paper, not the user: trained baselines, data sets, joules."""
