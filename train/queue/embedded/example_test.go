package embedded_test

import (
	"context"
	"fmt"
	"os"

	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

// A queue whose server is in this process: workers connect to its URL with the key in its KeyFile.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o := queue.DefaultOptions() // of an embedded server
	o.Server, o.Run, o.Dir, o.Listen = embedded.Start, "a run", dir, "127.0.0.1:0"
	q, err := queue.Open(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = os.Stat(q.KeyFile())
	fmt.Println(len(q.URL()) > len("nats://127.0.0.1:"), err, q.Close())
	// Output: true <nil> <nil>
}
