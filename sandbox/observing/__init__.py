"""A real Prometheus beside a stack on simulated nodes, and live dashboards: `make up OBSERVE=1`."""
