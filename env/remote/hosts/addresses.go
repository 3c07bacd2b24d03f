package hosts

import (
	"fmt"
	"io"

	"vagen/env"
	"vagen/internal/regular"
)

// maxFile limits the size of a file of URLs.
const maxFile = 1 << 20

// Addresses returns the base URLs that the options base_urls, a list or a text as for Split,
// and url_file, the path of a file with such a text, name; those of base_urls if it is neither
// nil nor empty. They are valid if Check or List says so. Texts are split once for all clients.
// Errors wrap env.ErrOption.
func (p *Pool) Addresses(baseURLs any, file string) ([]string, error) {
	switch v := baseURLs.(type) {
	case string:
		if v != "" {
			return p.Split(v), nil
		}
	case []string:
		return Trim(v), nil
	case []any:
		list := make([]string, 0, len(v))
		for i, u := range v {
			text, ok := u.(string)
			if !ok {
				return nil, fmt.Errorf("remote: option %q: %w: entry %d must be text, found %v (%T)", "base_urls", env.ErrOption, i,
					u, u)
			}
			list = append(list, text)
		}
		if len(list) > 0 {
			return Trim(list), nil
		}
	case nil:
	default:
		return nil, fmt.Errorf("remote: option %q: %w: a list or text is needed, found %v (%T)", "base_urls", env.ErrOption,
			v, v)
	}
	if file == "" {
		return nil, nil
	}
	f, err := regular.Open(file)
	if err != nil {
		return nil, fmt.Errorf("remote: option %q: %w: %w", "url_file", env.ErrOption, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes, the maximum", file, maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("remote: option %q: %w: %w", "url_file", env.ErrOption, err)
	}
	urls := p.Split(string(text))
	if len(urls) == 0 {
		return nil, fmt.Errorf("remote: option %q: %w: %s holds no URL", "url_file", env.ErrOption, file)
	}
	return urls, nil
}
