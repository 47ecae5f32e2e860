package harness

import "path/filepath"

// KubectlPath is the kubectl binary that belongs to the control plane.
func (c *Cluster) KubectlPath() string { return c.kubectl }

// Log is the path of a log of the control plane or of Curfew, by the name of who writes it.
func (c *Cluster) Log(name string) string { return filepath.Join(c.Dir, "logs", name+".log") }
