package mlflow_test

import (
	"fmt"
	"os"

	"vagen/train/track/mlflow"
)

// Check reports before a run whether the environment names a server.
func ExampleCheck() {
	for _, address := range []string{"http://localhost:5000", ""} {
		if err := os.Setenv("MLFLOW_TRACKING_URI", address); err != nil {
			fmt.Println(err)
		}
		fmt.Println(mlflow.Check() == nil)
	}
	// Output:
	// true
	// false
}
