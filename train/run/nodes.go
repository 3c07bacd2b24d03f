package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"vagen/policy/vlm"
	"vagen/train/config"
)

// checkNodes returns an error if the run cannot have several nodes.
func (o *Options) checkNodes(c *config.Config) error {
	if c.Model.Nodes > 1 && o.Learner != nil {
		return fmt.Errorf("run: %w: model.num_nodes is %d, but the learner is the caller's", config.ErrConfig, c.Model.Nodes)
	}
	return nil
}

// openModel opens the model, and connects it with the other nodes if there are any.
func (o *Options) openModel(ctx context.Context, c *config.Config) (*vlm.Model, error) {
	m := ModelOptions(c, o.Log)
	if name := c.Model.NodeKeyEnv; name != "" {
		if m.Nodes.Token = os.Getenv(name); m.Nodes.Token == "" {
			return nil, fmt.Errorf("run: %w: model.node_key_env: the environment variable %s is not set", config.ErrConfig, name)
		}
	}
	model, err := vlm.Open(ctx, c.Agent.Model.Path, m)
	if err != nil || c.Model.Nodes == 1 {
		return model, nameTLS(err)
	}
	if err := model.Connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("run: model.num_nodes is %d, model.coordinator %s: %w", c.Model.Nodes, c.Model.Coordinator, nameTLS(err)), model.Close())
	}
	return model, nil
}

// nameTLS adds the keys of Cert, CertKey and CA to an error that is about them.
func nameTLS(err error) error {
	if errors.Is(err, vlm.ErrCertificate) {
		return fmt.Errorf("model.node_tls_cert, model.node_tls_key and model.node_tls_ca are Cert, CertKey and CA: %w", err)
	}
	return err
}

// Follow is what the processes with a model.node_id above 0 do instead of Open and Train: it opens
// the model and takes part in the updates and scores of node 0, until node 0 closes its run. It writes no folder, and plays no
// episode.
//
// The end of ctx ends it only until all nodes are connected. Later it is logged, and node 0 must
// end: otherwise a signal for all processes would interrupt the update that node 0 finishes before it
// saves.
func Follow(ctx context.Context, c config.Config, o Options) (err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(c.PinAutotune(), o.Registries.Validate(&c), o.checkNodes(&c)); err != nil {
		return err
	}
	if c.Model.NodeID == 0 {
		return fmt.Errorf("run: %w: model.node_id is 0, which leads and does not follow", config.ErrConfig)
	}
	if c.Trainer.Stage == config.StageSFT {
		c = c.Supervised()
	}
	if _, err := preflightModel(ctx, &c); err != nil {
		return err
	}
	m, err := o.openModel(ctx, &c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	stop := context.AfterFunc(ctx, func() {
		o.Log.Warn("interrupted: this node ends when node 0 does; a second signal ends it at once", "node", c.Model.NodeID, "err", context.Cause(ctx))
	})
	defer stop()
	return m.Follow(context.WithoutCancel(ctx))
}
