package config

// nodes checks the settings of several processes.
func (v *validator) nodes(c *Config) {
	m := &c.Model
	if m.Nodes != 1 && m.Nodes != 2 && m.Nodes != 4 && m.Nodes != 8 {
		v.Say("{model.num_nodes} is %d, must be 1, 2, 4 or 8", m.Nodes)
		return
	}
	if m.Nodes == 1 {
		return
	}
	if m.Nodes*m.Devices > 8 {
		v.Say("{model.num_nodes} is %d and {model.devices} %d: together at most 8 devices are allowed, because a step is divided into 8 parts", m.Nodes, m.Devices)
	}
	if c.Trainer.Stage == StageSFTThen {
		v.Say("{trainer.stage} is %s, but {model.num_nodes} is %d: run the stages one after the other, because MPI starts once", c.Trainer.Stage, m.Nodes)
	}
}

// OneNode returns the configuration of one process that computes the same as all nodes together.
func (c *Config) OneNode() Config {
	one := *c
	if m := &one.Model; m.Nodes > 1 {
		if m.PerDevice {
			m.Devices *= m.Nodes
		} else {
			m.SameBytes = true
		}
		m.Nodes = 1
	}
	return one
}
