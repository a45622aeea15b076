package sandgate_test

import (
	"cmp"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestFilesOfAPackageAreLayered: the compiler holds no wall inside a package, so this test does. Its
// files can be put in an order in which each uses only what is below it, but for a few uses.
func TestFilesOfAPackageAreLayered(t *testing.T) {
	most := map[string]int{"supervisor": 7, "confine/linux": 1, "cmd/sandgate": 1}
	var patterns []string
	for dir := range most {
		patterns = append(patterns, "./"+dir)
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax}, patterns...)
	if err != nil || packages.PrintErrors(loaded) > 0 || len(loaded) != len(most) {
		t.Fatal(err, len(loaded))
	}
	for _, p := range loaded {
		dir, _ := filepath.Rel(module, p.PkgPath)
		uses := usesOfFiles(p)
		if len(uses) < 3 {
			t.Fatalf("%s: only %d files use another", dir, len(uses))
		}
		up := upward(uses)
		if len(up) > most[dir] {
			t.Errorf("%s: %d uses of a file above, at most %d: %v; move what is used to a file of its own", dir, len(up), most[dir], up)
		}
	}
}

// usesOfFiles gives for each file of a package those that it uses a name of.
func usesOfFiles(p *packages.Package) map[string]map[string]bool {
	uses := map[string]map[string]bool{}
	for id, used := range p.TypesInfo.Uses {
		if v, ok := used.(*types.Var); used.Pkg() != p.Types || ok && !v.IsField() && v.Parent() != p.Types.Scope() {
			continue
		}
		from, to := filepath.Base(p.Fset.File(id.Pos()).Name()), filepath.Base(p.Fset.File(used.Pos()).Name())
		if from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]bool{}
		}
		uses[from][to] = true
	}
	return uses
}

// upward gives the uses that run up in the best order of files that it finds, by moving one file
// at a time to where the fewest do.
func upward(uses map[string]map[string]bool) (up []string) {
	files := map[string]bool{}
	for from, to := range uses {
		files[from] = true
		maps.Copy(files, to)
	}
	order := slices.Sorted(maps.Keys(files))
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(len(uses[b]), len(uses[a])) })
	for better := true; better; {
		better = false
		for _, file := range slices.Clone(order) {
			at := slices.Index(order, file)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			run := 0 // how many run up with file at i
			for _, other := range rest {
				if uses[other][file] {
					run++
				}
			}
			best, least, here := 0, run, run
			for i, other := range rest {
				if uses[other][file] {
					run--
				}
				if uses[file][other] {
					run++
				}
				if run < least {
					best, least = i+1, run
				}
				if i+1 == at {
					here = run
				}
			}
			if least < here {
				order, better = slices.Insert(rest, best, file), true
			}
		}
	}
	for i, from := range order {
		for _, to := range order[:i] {
			if uses[from][to] {
				up = append(up, from+" uses "+to)
			}
		}
	}
	return up
}
