package hosts

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/field"
)

// maxLists limits the lists that are kept for clients to come.
const maxLists = 256

// list returns the services of base URLs, which all clients share. p.mu must be locked.
func (p *Pool) list(urls []string) ([]*Host, error) {
	key := strings.Join(urls, "\n")
	if hosts := p.lists[key]; hosts != nil {
		return hosts, nil
	}
	if err := Check(urls); err != nil {
		return nil, err
	}
	p.trim()
	var hosts []*Host
	for _, raw := range urls {
		raw = strings.Clone(raw) // which may be a part of a long text
		h := p.byURL[raw]
		if h == nil {
			u, err := url.Parse(raw)
			if err != nil {
				return nil, errors.Unwrap(err) // Check has parsed it
			}
			h = &Host{url: u, name: u.Redacted()}
			p.byURL[raw] = h
		}
		hosts = append(hosts, h)
	}
	p.lists[key] = hosts
	return hosts, nil
}

// trim forgets lists and unused services when there are too many. Clients keep theirs.
func (p *Pool) trim() {
	if len(p.lists) < maxLists {
		return
	}
	clear(p.lists)
	for raw, h := range p.byURL {
		if h.sessions == 0 && !h.probing {
			delete(p.byURL, raw)
		}
	}
}

// Split returns the URLs of a text: separated by semicolons and line breaks, without lines that
// begin with #, as Trim.
func Split(text string) []string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' })
	return slices.DeleteFunc(Trim(lines), func(u string) bool { return strings.HasPrefix(u, "#") })
}

// Trim removes white space, empty entries and trailing slashes.
func Trim(list []string) []string {
	var urls []string
	for _, u := range list {
		if u = strings.TrimRight(strings.TrimSpace(u), "/"); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// Check returns the errors of base URLs, of which there must be at least one, named
// base_urls and without passwords.
func Check(urls []string) error {
	f := field.Options("remote", nil)
	if len(urls) == 0 {
		f.Bad("base_urls", "none is given")
	}
	for _, raw := range urls {
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			f.Bad("base_urls", "one is not a URL: %v", errors.Unwrap(err)) // err itself contains the URL and its password
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			f.Bad("base_urls", "%q is not of the form http://host:port", u.Redacted())
		case u.RawQuery != "" || u.Fragment != "":
			f.Bad("base_urls", "%q ends in a query or a fragment", u.Redacted())
		}
	}
	return f.Err()
}
