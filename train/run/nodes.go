package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"vagen/internal/silent"
	"vagen/policy/vlm"
	"vagen/train/config"
)

// checkNodes returns an error if the run cannot have several processes.
func (o *Options) checkNodes(c *config.Config) error {
	if c.Model.Nodes > 1 && o.Learner != nil {
		return fmt.Errorf("run: %w: model.num_nodes is %d, but the learner is the caller's", config.ErrConfig, c.Model.Nodes)
	}
	return nil
}

// Rank returns which of the model.num_nodes processes this one is, and starts MPI if there are several. Rank 0
// calls Open and Train, the others Follow.
func Rank(ctx context.Context, c *config.Config) (int, error) {
	c = cmp.Or(c, new(config.Config))
	rank, err := ModelOptions(c, nil).Nodes.Rank(ctx)
	return rank, nameNodes(c, err)
}

// nameNodes adds the key to an error about the number of processes.
func nameNodes(c *config.Config, err error) error {
	if errors.Is(err, vlm.ErrOption) {
		err = fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("run: model.num_nodes is %d: %w", c.Model.Nodes, err)
}

// openModel opens the model, and connects it with the other ranks if there are any.
func (o *Options) openModel(ctx context.Context, c *config.Config) (*vlm.Model, error) {
	model, err := vlm.Open(ctx, c.Agent.Model.Path, ModelOptions(c, o.Log))
	if err != nil || c.Model.Nodes == 1 {
		return model, namedOption(err)
	}
	if err := model.Connect(ctx); err != nil {
		return nil, errors.Join(nameNodes(c, err), model.Close())
	}
	return model, nil
}

// Follow is what the processes with a Rank above 0 do instead of Open and Train: it opens
// the model and takes part in the updates and scores of rank 0, until rank 0 closes its run. It writes no folder, and plays no
// episode.
//
// The end of ctx ends it only until all ranks are connected. Later it is logged, and rank 0 must
// end: otherwise a signal for all processes would interrupt the update that rank 0 finishes before it
// saves.
func Follow(ctx context.Context, c config.Config, o Options) (err error) {
	o.Log = silent.Log(o.Log)
	if err := errors.Join(c.PinAutotune(), o.Registries.Validate(&c), o.checkNodes(&c)); err != nil {
		return err
	}
	rank, err := Rank(ctx, &c)
	switch {
	case err != nil:
		return err
	case rank == 0:
		return fmt.Errorf("run: %w: this process is rank 0, which leads and does not follow", config.ErrConfig)
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
		o.Log.Warn("interrupted: this rank ends when rank 0 does; a second signal ends it at once", "rank", rank, "err",
			context.Cause(ctx))
	})
	defer stop()
	return m.Follow(context.WithoutCancel(ctx))
}
