package main

import (
	"context"
	"maps"

	"curfew.dev/curfew/controller/settings"
)

// addSettings publishes the flags.
func (c *controller) addSettings(context.Context) error {
	data := maps.Clone(c.options.published)
	data[settings.Version] = version
	c.settings = &settings.Publisher{
		ConfigMaps: c.dynamic.Resource(settings.Resource).Namespace(c.options.namespace),
		User: func(ctx context.Context) (string, error) {
			who, err := c.identify(ctx)
			return who.User, err
		},
		Data: data, Report: c.report, Changed: c.reported, Clock: c.clock, Log: c.log.WithName("settings"),
	}
	return nil
}
