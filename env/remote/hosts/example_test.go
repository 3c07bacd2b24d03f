package hosts_test

import (
	"fmt"

	"vagen/env/remote/hosts"
)

// A pool gives each session to the service that has the fewest.
func Example() {
	pool := hosts.New(hosts.DefaultOptions())
	defer func() { _ = pool.Close() }()
	urls := []string{"http://one:8000", "http://two:8000"}
	for range 4 {
		session, err := pool.Session(urls, hosts.SessionOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		attempt := session.Begin(hosts.Open, session.Key())
		// Here a client asks attempt.Host() to open the session.
		attempt.Report(hosts.Opened)
	}
	for _, s := range pool.Status() {
		fmt.Println(s.URL, s.Sessions, s.Ejected)
	}
	_, err := pool.Session([]string{"ftp://three"}, hosts.SessionOptions{})
	fmt.Println(err)
	// Output:
	// http://one:8000 2 false
	// http://two:8000 2 false
	// remote: base_urls: "ftp://three" is not of the form http://host:port
}
