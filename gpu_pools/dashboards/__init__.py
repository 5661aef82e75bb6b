"""The dashboards without a Grafana: their questions asked of a Prometheus, the answers drawn as one HTML page."""
