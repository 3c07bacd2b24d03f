//go:build !mpi

package mpi

import "errors"

func initialise() (World, error) {
	return nil, errors.New("this program was built without it: install Open MPI's headers " +
		"(package libopenmpi-dev or openmpi-devel) and build with go build -tags mpi ./cmd/vagen, or with -tags mpi,mpich for MPICH")
}

func libraryVersion() string { return "none" }
