"""What Prometheus and Grafana get of a plan: series, rules, alerts, monitors, dashboards; as texts and objects."""
