package hosts

import (
	"fmt"
	"io/fs"
	"reflect"

	"vagen/env"
	"vagen/internal/field"
	"vagen/internal/regular"
)

// maxFile limits the size of a file of URLs.
const maxFile = 1 << 20

// Addresses returns the base URLs that the options base_urls, a list or a text as for Split,
// and url_file, the path of a file with such a text, name; those of base_urls if it names any.
// They are valid if Check or Pool.Session says so. Errors wrap env.ErrOption.
func Addresses(baseURLs any, file string) ([]string, error) {
	var list []string
	if text, ok := baseURLs.(string); ok {
		list = Split(text)
	} else if bad := (field.Rules{}).Set(reflect.ValueOf(&list).Elem(), baseURLs); bad != nil {
		return nil, fmt.Errorf("remote: option %q: %w: %w", "base_urls"+bad.At, env.ErrOption, bad)
	}
	if list = Trim(list); len(list) > 0 || file == "" {
		return list, nil
	}
	text, err := regular.ReadAtMost(file, maxFile, fs.ErrInvalid)
	if err != nil {
		return nil, fmt.Errorf("remote: option %q: %w: %w", "url_file", env.ErrOption, err)
	}
	urls := Split(string(text))
	if len(urls) == 0 {
		return nil, fmt.Errorf("remote: option %q: %w: %s holds no URL", "url_file", env.ErrOption, file)
	}
	return urls, nil
}
