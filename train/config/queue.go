package config

import (
	"vagen/internal/field"
	"vagen/internal/natsurl"
)

// QueueConfig says how trainer and workers use the queue in run.queue.
type QueueConfig struct {
	Name      string  `yaml:"name" default:"vagen" doc:"tells several runs on one server apart; workers need the same"`
	Listen    string  `yaml:"listen" default:"127.0.0.1:4222" doc:"embedded: address on which the server expects workers, as host:port. One that other machines can reach needs key_env"`
	Lease     float64 `yaml:"lease" default:"30" range:"0.1,1e6" unit:"seconds" doc:"time after which an episode is given to another worker if its worker is not heard of"`
	Tries     int     `yaml:"tries" default:"3" count:"positive" resume:"" doc:"how often an episode may end or fail its worker before it becomes unusable; a worker that is not heard of for lease seconds counts as ended"`
	NoWorkers float64 `yaml:"no_worker_timeout" default:"120" range:"0,1e6" unit:"seconds" doc:"if workers ended with an error, such as servers that they cannot reach: time without a result after which the run ends with that error if no worker is left. Workers may start later or be replaced within it. 0 waits for ever, as does a run whose workers reported no error"`
	Sync      bool    `yaml:"sync" doc:"embedded: write every result to disk before it is confirmed. Otherwise a power failure may cost results of the last minutes, whose episodes are played again"`

	Creds   string `yaml:"creds" null:"" doc:"file with credentials in NATS's format"`
	User    string `yaml:"user" null:"" doc:"name of the user whose password is in key_env; null logs in with the token in key_env, if that is set"`
	KeyEnv  string `yaml:"key_env" null:"" holds:"variable" doc:"environment variable with the token, or the password of user. Workers of an embedded server need the same; with null it makes a key of its own, which its user can read in queue/key of the run while it runs"`
	CA      string `yaml:"tls_ca" null:"" doc:"PEM file with the authorities that sign the server's certificate; null is those of the system. Refused with embedded: its workers get it as --tls-ca"`
	Cert    string `yaml:"tls_cert" null:"" doc:"PEM file with a certificate: this client's, or that of an embedded server"`
	CertKey string `yaml:"tls_key" null:"" doc:"PEM file with the key of tls_cert"`
}

// QueueEmbedded as run.queue starts a server in the trainer's process.
const QueueEmbedded = natsurl.Embedded

// QueueKeys are the settings of the options of package train/queue.
var QueueKeys = map[string]string{
	"URL": "run.queue", "Name": "run.queue_options.name", "Creds": "run.queue_options.creds",
	"User": "run.queue_options.user", "Key": "run.queue_options.key_env", "CA": "run.queue_options.tls_ca",
	"Cert": "run.queue_options.tls_cert", "CertKey": "run.queue_options.tls_key", "Listen": "run.queue_options.listen",
	"Lease": "run.queue_options.lease", "Tries": "run.queue_options.tries",
	"NoWorkers": "run.queue_options.no_worker_timeout",
}

// queue checks the settings of workers.
func (v *validator) queue(c *Config) {
	o := &c.Run.QueueOptions
	if c.Run.Queue == "" { // then all of them have no effect
		return
	}
	var options field.Checks
	login := natsurl.Connection{URL: c.Run.Queue, Name: o.Name, Creds: o.Creds, User: o.User, Key: o.KeyEnv != "",
		CA: o.CA, Cert: o.Cert, CertKey: o.CertKey}
	if login.Check(&options); c.Run.Queue == QueueEmbedded {
		login.CheckServer(&options, o.Listen)
	}
	for _, err := range options.Errors() {
		v.Say("%w", field.Renamed(err, QueueKeys))
	}
	if c.Run.Continuous {
		v.Say("{run.continuous} is true, but {run.queue} is set: every episode is played by itself already")
	}
	if c.Run.Patience > 0 {
		v.Say("{run.patience} is %v, but {run.queue} is set: every episode is played by itself, so that none waits for others", c.Run.Patience)
	}
	if c.Run.Waves > 1 {
		v.Say("{run.waves} is %d, but {run.queue} is set: every episode is played by itself", c.Run.Waves)
	}
}

// continuous checks run.continuous.
func (v *validator) continuous(c *Config) {
	if !c.Run.Continuous {
		return
	}
	if c.Run.Patience > 0 || c.Run.Waves > 1 {
		v.Say("{run.continuous} is true, but {run.patience} is %v and {run.waves} %d, must be 0 and 1: no episode waits for others",
			c.Run.Patience, c.Run.Waves)
	}
	if m := c.Model; !c.UsesEngine() && (m.Devices > 1 || m.Nodes > 1 || m.SameBytes) {
		v.Say("{run.continuous} is true, but {model.devices} is %d, {model.num_nodes} %d and {model.same_bytes} %v: the model in "+
			"this process needs one device and one process for it", m.Devices, m.Nodes, m.SameBytes)
	}
}
