package assemble

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/platform"
)

// BackendUsage describes the values of --backend.
const BackendUsage = "auto, bwrap or landlock; seatbelt on macOS"

// CheckBackend returns an error if name is not a backend of this system.
func CheckBackend(name string) error {
	system := map[string]string{"auto": runtime.GOOS, "bwrap": "linux", "landlock": "linux", "seatbelt": "darwin"}
	switch system[name] {
	case runtime.GOOS:
		return nil
	case "":
		return hinted(configError(fmt.Errorf("--backend %q is not a backend", name)), "use "+BackendUsage)
	}
	return hinted(unavailable(fmt.Errorf("--backend %s is for %s", name, system[name])), "use auto")
}

// StartBackend makes the confiner on another thread. What it gives waits for it.
//
// Whether bubblewrap can build anything here is known only when it has tried. A
// supervisor that stays, and one that might run tools unconfined, try at the
// start; one that runs a single command finds out by running it.
func StartBackend(r *Running, cfg *config.Config, o Options) func() (*platform.Backend, error) {
	options := platform.Options{Backend: o.Backend, Unconfined: mayRunUnconfined(cfg)}
	backend := sync.OnceValues(func() (*platform.Backend, error) {
		b, err := platform.New(options)
		if err != nil || !o.TryBackend && !options.Unconfined {
			return b, err
		}
		if r.tried, err = b.Try(context.Background()); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return b, nil
	})
	go backend()
	r.close = append(r.close, func() error {
		if b, err := backend(); err == nil {
			return b.Close()
		}
		return nil
	})
	return backend
}

// mayRunUnconfined: require_os_sandbox is false, and no operator profile asks for
// anything, which nothing would then enforce.
func mayRunUnconfined(cfg *config.Config) bool {
	return !cfg.Sandbox.RequireOSSandbox && len(cfg.OperatorProfiles()) == 0
}

// RequireBackend gives the backend, or the reason why there is none. With
// require_os_sandbox and fail_fast the lack of one is an error; otherwise the
// supervisor starts and every tool is refused.
func RequireBackend(cfg *config.Config, backend func() (*platform.Backend, error)) (b *platform.Backend, unconfined, err error) {
	b, unconfined = backend()
	if unconfined == nil || !cfg.Sandbox.RequireOSSandbox || cfg.Sandbox.OSSandboxFallback != config.FailFast {
		return b, unconfined, nil
	}
	refusal := unavailable(unconfined)
	var u *confine.Unenforceable
	if errors.As(unconfined, &u) {
		refusal.Advice = u.Hint
	}
	return nil, nil, refusal
}

// unconfinedWarnings are said at the start; each result says its own.
func unconfinedWarnings(b *platform.Backend) []string {
	if b == nil || b.Name() != confine.NoBackend {
		return nil
	}
	return []string{confine.UnconfinedWarning}
}
