package configdiff

import (
	"log"
	"os"
	"testing"
)

// TestMain has the tests keep nothing where the person who runs them keeps his own.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, home); err != nil {
			log.Fatal(err)
		}
	}
	status := m.Run()
	if err := os.RemoveAll(home); err != nil {
		log.Print(err)
	}
	os.Exit(status)
}
