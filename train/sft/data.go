package sft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"vagen/env"
	"vagen/internal/field"
	"vagen/internal/rng"
	"vagen/internal/settings"
	"vagen/internal/silent"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/train/config"
)

// source is an example before it is tokenised: a conversation, or the rows of an episode.
type source struct {
	where    string // file and record, for errors
	messages []message
	tools    string // definitions, a JSON list; "" for none
	recorded []row
	// follows says that it is of the lesson of the source before it: both are for training, or both
	// for validation.
	follows bool
}

// rows is the number of training rows.
func (s *source) rows() int { return max(1, len(s.recorded)) }

// row is a training row.
type row struct {
	where  string
	tokens []int32
	weight []float32 // of each token in the loss; 0 excludes it
	images func() ([]policy.Image, error)

	// Until the row's length and weights are final:
	turn     []int32 // of each token, −1 outside of responses
	pictures []int   // number of images before the response of each turn; nil if not known
}

// Data are the examples of a supervised stage. It is not safe for concurrent use.
type Data struct {
	config      *config.Config
	log         *slog.Logger
	response    response
	found       int      // training rows
	train, held []source // until Encode
	rows        []row    // of training
	val         []row
	epoch       int    // of order; -1 before the first
	seed        uint64 // of order
	order       []int
}

// opener reads the examples of a configuration.
type opener struct {
	config   *config.Config
	envs     *env.Registry
	response response // of a recorded episode
	filtered int      // recorded episodes that are not learned from
	solved   int      // lessons that end in success
}

// Open reads the examples of a configuration's supervised stage, and plays its lessons. It sets
// the number of steps, trainer.total_training_steps, if it follows from sft.total_epochs.
// Errors wrap config.ErrConfig; those about files also wrap ErrExample and name file, record
// and field. log may be nil.
func Open(ctx context.Context, c *config.Config, envs *env.Registry, log *slog.Logger) (*Data, error) {
	if c == nil {
		return nil, fmt.Errorf("sft: %w: it is nil", config.ErrConfig)
	}
	var bad field.Checks
	if settings.Check(&bad, &c.SFT); bad.Err() != nil {
		return nil, fmt.Errorf("sft: %w: %w", config.ErrConfig, bad.Err())
	}
	log = silent.Log(log)
	o := &opener{config: c, envs: envs}
	train, held, err := o.read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("sft: %w: %w", config.ErrConfig, err)
		}
		return nil, err
	}
	n := 0
	for i := range train {
		n += train[i].rows()
	}
	if c.SFT.Steps == config.StepsFromEpochs {
		c.Trainer.Steps = (c.SFT.Epochs*n + c.SFT.Batch - 1) / c.SFT.Batch
	}
	log.Info("examples of the supervised stage", "train", len(train), "validation", len(held), "rows", n, "steps",
		c.Trainer.Steps,
		"recorded episodes left out", o.filtered, "lessons solved", o.solved)
	return &Data{config: c, log: log, response: o.response, found: n, train: train, held: held, epoch: -1}, nil
}

// read reads all examples and divides them into those of training and validation.
func (o *opener) read(ctx context.Context) (train, held []source, err error) {
	s := &o.config.SFT
	if train, err = o.readFiles(ctx, "train_files", s.TrainFiles); err != nil {
		return nil, nil, err
	}
	if s.Lessons.Teacher != "" {
		lessons, err := o.playLessons(ctx)
		if err != nil {
			return nil, nil, err
		}
		train = append(train, lessons...)
	}
	if len(train) == 0 {
		return nil, nil, fmt.Errorf("%w: no example is left: %d recorded episodes are left out by sft.episodes and sft.min_return, or cannot be used for training", ErrExample, o.filtered)
	}
	if len(s.ValFiles) > 0 {
		held, err = o.readFiles(ctx, "val_files", s.ValFiles)
		if err == nil && len(held) == 0 {
			err = fmt.Errorf("sft.val_files: %w: no example is left", ErrExample)
		}
		return train, held, err
	}
	of, wholes := make([]int, len(train)), 0 // wholes are conversations, and lessons with several
	for i := range train {
		if !train[i].follows {
			wholes++
		}
		of[i] = wholes - 1
	}
	n := min(int(s.ValFraction*float64(wholes)+0.5), wholes-1)
	if s.ValFraction > 0 && n == 0 && wholes > 1 {
		n = 1
	}
	order := rng.New(o.config.Run.Seed, rng.Shuffle, 0, 0, 0).Perm(wholes) // of three ids, unlike those of epochs
	chosen := make([]bool, wholes)
	for _, i := range order[:n] {
		chosen[i] = true
	}
	var rest []source
	for i := range train {
		if chosen[of[i]] {
			held = append(held, train[i])
		} else {
			rest = append(rest, train[i])
		}
	}
	return rest, held, nil
}

// Encode tokenises the examples. It must be called before the other methods; further calls do
// nothing.
func (d *Data) Encode(ctx context.Context, encode policy.Encoder) error {
	switch {
	case d.config == nil:
		return unmade.Error("sft.Data", "Open")
	case d.rows != nil:
		return nil
	case encode == nil:
		return errors.New("sft: Encode: the encoder is nil, must be that of the model")
	}
	if err := d.response.check(encode); err != nil {
		return fmt.Errorf("sft: %w", err)
	}
	e := &encoding{config: &d.config.SFT, encode: encode}
	if l, ok := policy.As[policy.Bounded](encode); ok {
		e.limit = l.MaxPositions()
	}
	var err error
	if d.rows, err = e.all(ctx, d.train); err != nil {
		return err
	}
	if d.val, err = e.all(ctx, d.held); err != nil {
		return err
	}
	d.train, d.held = nil, nil
	if e.dropped+e.cut > 0 {
		d.log.Warn("examples are longer than the limit", "sft.max_length", d.config.SFT.MaxLength, "dropped", e.dropped,
			"cut", e.cut)
	}
	if e.idle > 0 {
		d.log.Warn("examples have no token with a weight, and are left out", "examples", e.idle)
	}
	switch {
	case len(d.rows) > 0:
	case e.idle == 0:
		return fmt.Errorf("sft: %w: all examples were dropped, because they are longer than the limit", ErrExample)
	default:
		return fmt.Errorf(
			"sft: %w: no example is left: %d are longer than the limit, and %d have no token with a weight above 0",
			ErrExample, e.dropped, e.idle,
		)
	}
	return nil
}

// Rows returns the number of rows for training and validation.
func (d *Data) Rows() (train, val int) { return len(d.rows), len(d.val) }

// Epoch returns the number of passes over the rows that have begun with a step, counted from 0. It is
// 0 before Encode.
func (d *Data) Epoch(step int) int {
	if len(d.rows) == 0 {
		return 0
	}
	return (step*d.config.SFT.Batch - 1) / len(d.rows)
}

// Batch returns the batch of an optimiser step, counted from 1. Epochs follow each other
// without a gap, so that every batch has sft.train_batch_size rows. With sft.shuffle their
// order depends on seed, which is run.seed, or another one after a rollback.
func (d *Data) Batch(step int, seed uint64) (*policy.Batch, error) {
	switch {
	case d.config == nil:
		return nil, unmade.Error("sft.Data", "Open")
	case len(d.rows) == 0:
		return nil, errors.New("sft: Batch: Encode has not been called")
	case step < 1:
		return nil, fmt.Errorf("sft: Batch: step is %d, must be at least 1", step)
	}
	n, size := len(d.rows), d.config.SFT.Batch
	members := make([]*row, size)
	for k := range members {
		at := (step-1)*size + k
		if epoch := at / n; epoch != d.epoch || seed != d.seed {
			d.epoch, d.seed, d.order = epoch, seed, rng.Order(d.config.SFT.Shuffle, n, seed, rng.Shuffle, uint64(epoch))
		}
		members[k] = &d.rows[d.order[at%n]]
	}
	b, err := collate(members)
	if err != nil {
		return nil, err
	}
	normalize(b, d.config.SFT.Aggregation)
	return b, nil
}

// Held yields the held-out rows in batches of sft.train_batch_size. The weights are those of
// the tokens, not normalised.
func (d *Data) Held(yield func(*policy.Batch, error) bool) {
	if len(d.val) == 0 {
		return
	}
	for part := range slices.Chunk(d.val, d.config.SFT.Batch) {
		members := make([]*row, len(part))
		for i := range part {
			members[i] = &part[i]
		}
		if b, err := collate(members); !yield(b, err) || err != nil {
			return
		}
	}
}

// Len returns the number of training rows that Open found. Encode may drop some.
func (d *Data) Len() int { return d.found }
