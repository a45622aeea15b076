package confine_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
)

// TestNothingIsPlanted: where the broker makes the changes, what TestNothingPlantedRuns
// finds and takes away is never made. Nothing looks for it, during the call or after.
func TestNothingIsPlanted(t *testing.T) {
	l := newLandlock(t, confine.LandlockOptions{})
	for _, x := range plants {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			if _, err := exec.LookPath(x.lacks); x.lacks != "" && err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			g := newGround(t)
			t.Setenv("HOME", g.beside+"/home")
			g.outside(x.setup)
			r, err := g.tries(l, x.plant)
			if err != nil {
				t.Errorf("the call: %v", err)
			}
			if len(r.Planted) > 0 {
				t.Errorf("something was made, and taken away: %+v", r.Planted)
			}
			if len(r.Refused) == 0 {
				t.Errorf("nothing was refused: %s", g.said.String())
			}
			g.outside(x.fire)
			if g.fired() {
				t.Errorf("it runs; refused was %+v\n%s", r.Refused, g.said.String())
			}
		})
	}
}
