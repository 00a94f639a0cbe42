"""Plans before an experiment: replications and users needed, designs compared, intervals verified."""
