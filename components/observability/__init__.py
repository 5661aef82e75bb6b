"""What reads the GPUs' metrics and what they need: monitors, rules, dashboards, Azure Monitor."""
