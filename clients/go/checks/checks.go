// Package checks prints a line for each check, and has comparisons that say what was seen.
package checks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

// Version prints the first line: the client and its version in this program.
func Version(client, module string) {
	version := "?"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				version = strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	fmt.Printf("version %s %s\n", client, version)
}

// Check runs body, which has ten seconds, and prints its line.
func Check(name string, body func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := guarded(ctx, body); err != nil {
		fmt.Printf("not ok %s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
	} else {
		fmt.Printf("ok %s\n", name)
	}
}

func guarded(ctx context.Context, body func(ctx context.Context) error) (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("panic: %v", found)
		}
	}()
	return body(ctx)
}

// Equal compares deeply.
func Equal(expected, seen any) error {
	if !reflect.DeepEqual(expected, seen) {
		return fmt.Errorf("expected %#v, saw %#v", expected, seen)
	}
	return nil
}

// Fails says that err is not an error with this SQLSTATE.
func Fails(state string, err error) error {
	var coded interface{ SQLState() string }
	switch {
	case err == nil:
		return fmt.Errorf("expected SQLSTATE %s, saw no error", state)
	case errors.As(err, &coded) && coded.SQLState() == state:
		return nil
	}
	return fmt.Errorf("expected SQLSTATE %s, saw %w", state, err)
}

// First returns the first error.
func First(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
