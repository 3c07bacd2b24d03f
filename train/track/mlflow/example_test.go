package mlflow_test

import (
	"fmt"

	"vagen/train/track/mlflow"
)

// Check reports before a run whether the environment names a server.
func ExampleCheck() {
	environment := map[string]string{"MLFLOW_TRACKING_URI": "http://localhost:5000"}
	lookup := func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
	fmt.Println(mlflow.Check(lookup))
	delete(environment, "MLFLOW_TRACKING_URI")
	fmt.Println(mlflow.Check(lookup) != nil)
	// Output:
	// <nil>
	// true
}
