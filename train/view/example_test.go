package view_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"vagen/train/config"
	"vagen/train/view"
)

// A server shows the folders of runs. It can be part of another program's server; a report
// has the same content in one file.
func Example() {
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := config.Default()
	settings, err := c.Stored()
	if err != nil {
		fmt.Println(err)
		return
	}
	for name, content := range map[string]string{
		"config.yaml":   string(settings),
		"metrics.jsonl": `{"kind": "step", "step": 1, "train/score": 0.25}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}

	server := view.Server{Runs: []string{dir}}
	handler, err := server.Handler()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"localhost", "vagen.example"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", "http://"+host+"/", nil))
		fmt.Println(host, answer.Code) // without a key it answers under loopback names only
	}
	var page strings.Builder
	report := view.Report{Runs: []string{dir}, Episodes: 10}
	fmt.Println(report.Write(&page), strings.Contains(page.String(), "train/score"))
	// Output:
	// localhost 200
	// vagen.example 403
	// <nil> true
}
