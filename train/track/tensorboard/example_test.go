package tensorboard_test

import (
	"errors"
	"fmt"
	"os"

	"vagen/train/track"
	"vagen/train/track/tensorboard"
)

// New writes event files that TensorBoard shows with --logdir.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "events")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := tensorboard.New(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Event(track.Event{Kind: track.KindStep, Step: 1, Total: 1, Metrics: track.Metrics{"train/success": 0.5}})
	files, err2 := os.ReadDir(dir)
	fmt.Println(len(files), errors.Join(err, err2, s.Close()))
	// Output: 1 <nil>
}
