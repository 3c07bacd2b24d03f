package view_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
)

// gate is a sink that stops training after each step until the test lets it continue.
type gate struct {
	reached, open chan struct{}
	end           <-chan struct{} // the test has ended
}

func (g gate) Event(e track.Event) error {
	if e.Kind == track.KindStep {
		select {
		case g.reached <- struct{}{}:
			<-g.open
		case <-g.end:
		}
	}
	return nil
}

func (gate) Close() error { return nil }

// listed is the condition that the page's list holds n episodes. The count also says how many of
// them came since the list was opened, where they came later.
func listed(n int) string {
	return fmt.Sprintf(`document.getElementById('count')?.textContent.startsWith('%d episodes')`, n)
}

// TestThePageFollowsARunThatTrains: a model is trained for three steps while the page is
// open, which shows new points, then the new episodes and their credit, without being loaded
// again.
func TestThePageFollowsARunThatTrains(t *testing.T) {
	browserPath(t)
	dir := filepath.Join(t.TempDir(), "run")
	shape := vlm.Small()
	shape.Layers, shape.Hidden, shape.FF, shape.Heads = 1, 32, 32, 1
	shape.VisionHidden, shape.VisionFF, shape.VisionHeads = 16, 16, 1
	model := tinymodel.Create(t, shape, tinymodel.Tags, 1)
	c, err := config.Load(
		"",
		"env.name=frozenlake",
		"env.config.render_mode=vision",
		"env.config.size=2",
		"env.config.tile_size=14",
		"env.config.prompt=brief",
		"model.backend=go",
		"model.cache_tokens=256",
		"model.micro_tokens=512",
		"actor_rollout_ref.model.path="+model,
		"actor_rollout_ref.actor.ppo_mini_batch_size=2",
		"critic.kind=shared",
		"data.train_batch_size=2",
		"data.val_batch_size=2",
		"data.max_response_length=4",
		"rollout_manager.max_turns=1",
		"trainer.total_training_steps=3",
		"trainer.save_freq=-1",
		"trainer.test_freq=0",
		"trainer.val_before_train=false",
		"trainer.rollout_data_dir="+filepath.Join(
			dir, "rollouts",
		),
		"trainer.rollout_data_scores=true",
		"trainer.log_image.enable=true",
	)
	require.NoError(t, err)
	g := gate{make(chan struct{}), make(chan struct{}), t.Context().Done()}
	r, err := run.Open(t.Context(), c, run.Options{Dir: dir, Sinks: []track.Sink{g}})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- r.Train(t.Context()) }()

	s := serveRuns(t, "", dir)
	b := browse(t, 1280, 900, "light") // closed before the server, which waits for its stream of events
	<-g.reached
	b.open(s.URL+"/#/metrics?names=train/score", ".chart")
	eval[bool](b, "(window.loadedOnce = true)")
	shown := func(step int) {
		b.until(fmt.Sprintf(`document.querySelector('.legend')?.textContent.includes(' step %d')`, step))
	}
	shown(1)
	g.open <- struct{}{}
	<-g.reached
	shown(2)
	b.keys("2")
	b.until(listed(4))
	g.open <- struct{}{}
	<-g.reached
	b.until(listed(6))
	g.open <- struct{}{}
	require.NoError(t, <-ended)
	require.NoError(t, r.Close())
	b.until(`[...document.querySelectorAll('.space .row a')].some((a) => a.textContent === 'train/3/1-0')`)
	eval[bool](b, `([...document.querySelectorAll('.space .row a')].find((a) => a.textContent === 'train/3/1-0').click(), true)`)
	b.until("document.querySelector('.turn img')?.naturalWidth > 0")
	b.keys("c")
	b.until("document.querySelector('.token.filled')")
	require.True(t, eval[bool](b, "window.loadedOnce === true"), "the page was not loaded again")
	b.quiet()
}
