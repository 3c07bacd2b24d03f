package openenv

import (
	"fmt"
	"sync"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/env/remote/hosts"
	"vagen/internal/field"
	"vagen/internal/jsonschema"
)

// settings are the named options of a Client.
type settings struct {
	BaseURLs      any            `option:"base_urls" kind:"address"`
	Token         string         `option:"token" kind:"secret"`
	Timeout       float64        `option:"timeout" range:">0,1e9" must:"be from above 0 to 1e9"`
	CapacityWait  float64        `option:"capacity_wait" least:"0"`
	ActionFormat  string         `option:"action_format" kind:"text" oneof:" field json whole"`
	ActionField   string         `option:"action_field" kind:"text"`
	ActionFixed   map[string]any `option:"action_fixed" kind:"address"`
	Reset         map[string]any `option:"reset" kind:"address"`
	Text          string         `option:"text" kind:"text"`
	Images        []string       `option:"images" kind:"text"`
	Success       string         `option:"success" kind:"text"`
	System        *string        `option:"system" kind:"text"`
	NullReward    *float64       `option:"null_reward"`
	InvalidReward float64        `option:"invalid_reward"`
	MaxResponse   float64        `option:"max_response_mb" range:">0,1e6" must:"be from above 0 to 1e6"`
	MaxImages     int            `option:"max_images" least:"0"`
	MaxPixels     int            `option:"max_image_pixels" least:"1"`
}

func defaults() settings {
	return settings{
		Timeout: 120, CapacityWait: 600, Success: "metadata.success",
		MaxResponse: 16, MaxImages: 64, MaxPixels: 32 << 20,
	}
}

// OwnOptions returns the struct of the options, for env.OptionKinds.
func OwnOptions() any { return defaults() }

// FromConfig creates a Client from named options. It is an env.Factory.
//
//	base_urls          one or many, see hosts.Pool: list, or text split at semicolons and line breaks
//	token              sent as a bearer token
//	timeout            seconds for one answer, 120; after it the episode is lost
//	capacity_wait      seconds to wait for a session while the servers have as many as they allow, 600
//	action_format      how a response becomes an action: field, json or whole. field takes the text
//	                   between <answer> and </answer> as the value of one field, json as an object
//	                   of fields, whole the whole response as the value of one field. Without
//	                   it, an action with one required field takes field, or whole if its name is
//	                   response, and other actions take json
//	action_field       the field of field and whole; without it the only required one
//	action_fixed       fields that every action has, which responses cannot choose
//	reset              fields of every reset besides the seed
//	text               text of an observation, with path expressions in braces: "Score {score}\n{board[0]}".
//	                   {} is the whole observation. Without it {text} if observations have a
//	                   field text, else all fields as JSON, except metadata and those of images
//	images             path expressions of images: [screenshot, "result.content[].data"]. Without it
//	                   images if observations have a field images. A text that has not one mark
//	                   per image gets them at its end, and loses others
//	success            path of what says at the end that the task is solved, metadata.success; if
//	                   there is no such value, a positive reward of the last turn says it
//	system             system prompt; without it the server's readme_content or description, and
//	                   a description of the answer's format
//	null_reward        what a reward of null is worth; without it null is an error, because
//	                   servers send NaN as null
//	invalid_reward     reward of a response that is no action of the server's schema, 0. It is not
//	                   sent; the model is shown the reason and the last observation
//	max_response_mb, max_images, max_image_pixels
//	                   limits of an answer: 16, 64 and 32 Mi
func FromConfig(config map[string]any) (env.Env, error) { return fromConfig(config) }

var fromConfig = Factory()

// Factory returns FromConfig with its own memory of the schemas of servers, which its clients share.
func Factory() env.Factory {
	known := new(sync.Map)
	return func(config map[string]any) (env.Env, error) {
		o := defaults()
		if err := env.Decode(config, &o); err != nil {
			return nil, fmt.Errorf("openenv: %w", err)
		}
		c, err := newClient(o, known)
		if err != nil {
			return nil, fmt.Errorf("openenv: %w: %w", env.ErrOption, err)
		}
		return c, nil
	}
}

// newClient returns a client that has made no request.
func newClient(o settings, known *sync.Map) (*Client, error) {
	f := field.Options("openenv", nil)
	f.Struct(&o, "option")
	c := &Client{o: o, known: known, calls: calls.Guard{Env: "openenv"}}
	var err error
	if c.text, err = parseTemplate(o.Text); err != nil {
		f.Bad("text", "%v", err)
	}
	for i, s := range o.Images {
		p, err := parsePath(s)
		if err != nil {
			f.Bad(fmt.Sprintf("images[%d]", i), "%v", err)
		}
		c.images = append(c.images, p)
	}
	if c.success, err = parsePath(o.Success); err != nil {
		f.Bad("success", "%v", err)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	urls, err := hosts.Addresses(o.BaseURLs, "")
	if err != nil {
		return nil, err
	}
	c.session, err = hosts.Process().Session(urls, hosts.SessionOptions{Probe: c.probe})
	return c, err
}

// served is what a server says about its environment.
type served struct {
	prompt string
	schema struct {
		Action      jsonschema.Schema `json:"action"`
		Observation jsonschema.Schema `json:"observation"`
	}
}
