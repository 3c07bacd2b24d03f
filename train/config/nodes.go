package config

import "net"

// nodes checks the settings of several processes.
func (v *validator) nodes(c *Config) {
	m := &c.Model
	if m.Nodes != 1 && m.Nodes != 2 && m.Nodes != 4 && m.Nodes != 8 {
		v.Say("{model.num_nodes} is %d, must be 1, 2, 4 or 8", m.Nodes)
		return
	}
	if m.NodeID < 0 || m.NodeID >= m.Nodes {
		v.Say("{model.node_id} is %d, must be in [0, %d] with {model.num_nodes} %d", m.NodeID, m.Nodes-1, m.Nodes)
	}
	if m.Nodes == 1 {
		if m.Coordinator+m.NodeAddress+m.NodeKeyEnv+m.NodeCA+m.NodeCert+m.NodeCertKey != "" {
			v.Say("{model.coordinator} is %q, {model.node_address} %q, {model.node_key_env} %q, {model.node_tls_ca} %q, {model.node_tls_cert} %q and {model.node_tls_key} %q, but {model.num_nodes} is 1: there is no other node", m.Coordinator, m.NodeAddress, m.NodeKeyEnv, m.NodeCA, m.NodeCert, m.NodeCertKey)
		}
		return
	}
	if m.Nodes*m.Devices > 8 {
		v.Say("{model.num_nodes} is %d and {model.devices} %d: together at most 8 devices are allowed, because a step is divided into 8 parts", m.Nodes, m.Devices)
	}
	for _, a := range []struct {
		key, address string
		need         bool
	}{{"model.coordinator", m.Coordinator, true}, {"model.node_address", m.NodeAddress, false}} {
		if a.address == "" && !a.need {
			continue
		}
		if host, port, err := net.SplitHostPort(a.address); err != nil || host == "" || port == "" {
			v.Say("{%s} is %q, must be host:port with {model.num_nodes} %d", a.key, a.address, m.Nodes)
		}
	}
	if set := m.NodeCert != ""; set != (m.NodeCertKey != "") || set != (m.NodeCA != "") {
		v.Say("{model.node_tls_cert} is %q, {model.node_tls_key} %q and {model.node_tls_ca} %q: all must be set, or none", m.NodeCert, m.NodeCertKey, m.NodeCA)
	}
	if c.Trainer.Stage == StageSFTThen {
		v.Say("{trainer.stage} is %s, but {model.num_nodes} is %d: run the stages one after the other, because the nodes open the model once", c.Trainer.Stage, m.Nodes)
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
		m.Nodes, m.NodeID, m.Coordinator, m.NodeAddress, m.NodeKeyEnv, m.NodeCA, m.NodeCert, m.NodeCertKey = 1, 0, "", "", "", "", "", ""
	}
	return one
}
