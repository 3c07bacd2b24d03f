// Package env is the contract between environments and what plays them.
//
// An Env is one live instance of a world that is shown to a model as text and
// images and acted on by the text that the model writes. Implementations live in
// their own packages below this one; package builtin lists them all in one
// Registry. Check exercises any implementation for breaches of the contract.
//
// An environment that is also a Snapshotter lets recorded episodes be continued from any
// turn at once; those of the others are played again from their seed up to the turn.
//
// To add an environment, implement Env, write a Factory that decodes its options
// with Decode, register it under a name, and run Check in its tests:
//
//	var r env.Registry
//	err := r.Register("maze", func(config map[string]any) (env.Env, error) {
//		o := maze.Options{Size: 8}
//		if err := env.Decode(config, &o); err != nil {
//			return nil, err
//		}
//		return maze.New(o)
//	})
package env
