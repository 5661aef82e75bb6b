// Package ui stands in for Alertmanager's web pages: their files are made by npm, and its Go module does not have them.
package ui

import "github.com/prometheus/common/route"

// Register adds no page: Alertmanager's API is not here, and is served as it is.
func Register(_ *route.Router) {}
