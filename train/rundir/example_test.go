package rundir_test

import (
	"fmt"
	"os"

	"vagen/train/rundir"
)

// The validations of a run that was stopped while it wrote a line.
func ExampleDir_Events() {
	path, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	run := rundir.Dir(path)
	lines := `{"kind":"validate","step":0,"val/success":0.25}
{"kind":"step","step":1,"train/success":0.5}
{"kind":"validate","step":1,"val/success":0.75}
{"kind":"st`
	if err := os.WriteFile(run.Path(rundir.MetricsName), []byte(lines), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range run.Events {
		if err != nil {
			break
		}
		if e.Kind == "validate" {
			fmt.Println(e.Step, e.Metrics["val/success"])
		}
	}
	// Output:
	// 0 0.25
	// 1 0.75
}
