package main

import (
	"curfew.dev/curfew/controller/pause"
)

// addPauses has all clients send nothing that a DeletionPause names.
func (p *process) addPauses() {
	p.pauses = pause.New(pause.Options{Clock: p.clock, Log: p.log.WithName("pause")})
	p.config.Wrap(p.pauses.Wrap)
}

// readPauses says where the pauses are read.
func (c *controller) readPauses() error {
	read, err := pause.OfCluster(c.config)
	if c.options.only() {
		read, err = pause.OfNamespace(c.config, c.options.namespace)
	}
	c.pauses.Use(read, c.reported.Set)
	return err
}
