package plot_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"vagen/train/track/curve/plot"
)

// The success of two runs over the steps, as a picture for a paper.
func ExampleLines() {
	dir, err := os.MkdirTemp("", "plot")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l := plot.Lines{Title: "FrozenLake", Label: "val/success", Lines: []plot.Line{
		{Name: "masked", Points: [][2]float64{{0, 0.2}, {10, 0.5}, {20, 0.7}}},
		{Name: "bi-level", Points: [][2]float64{{0, 0.2}, {10, 0.6}, {20, 0.9}}},
	}}
	path := filepath.Join(dir, "success.svg")
	if err := l.Write(path); err != nil {
		fmt.Println(err)
		return
	}
	svg, err := os.ReadFile(path)
	fmt.Println(bytes.Contains(svg, []byte("bi-level")), err)
	// Output: true <nil>
}
