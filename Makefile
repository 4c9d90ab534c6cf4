# Builds, installs and removes PVM for C and Fortran users. `make help` says how.

PREFIX   = /usr/local
DESTDIR  =
CARGO    = cargo
INSTALL  = install
# What is installed has no debug sections; "make install STRIP=true" keeps them.
STRIP    = strip
# Where `make tarball` and `make deb` put what they make.
DIST     = dist
# The linker's option by which programs find the libraries, if they need one; packages set it empty.
RUN_PATH = $$(packaging/run-path.sh "$(PREFIX)/lib")

# Cargo's profile; with dev everything is built sooner, and runs slower. And what is built: at least these packages.
PROFILE  = release
PACKAGES = -p pvm-console -p pvm-task-manager -p pvm-docs -p libpvm-c
# Where cargo leaves what it built.
BUILD    = $(or $(CARGO_TARGET_DIR),target)/$(PROFILE:dev=debug)

PVM_ARCH    := $(shell sh packaging/pvmgetarch)
RELEASE     := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
API_VERSION := $(shell sed -n 's/^.define PVM_VER *"\(.*\)"/\1/p' libpvm/c/include/pvm3.h)

# What a program that links libpvm3.a needs besides, as `rustc --print native-static-libs` lists it; compilers add
# libgcc and libc by themselves. From glibc 2.34 on, all but libm are empty.
LIBS_PRIVATE = -lutil -lrt -lpthread -lm -ldl
# With --gc-sections, which pvm3.pc adds, a static program has only those parts of the library that it can reach.

# Calls that PVM has in libraries of their own, as patterns of symbols (packaging/filter.sh).
FORTRAN = 'pvm*_'
GROUPS  = '!pvm*_' PvmMax PvmMin PvmSum PvmProduct 'gs_*' gstid pvmgs_tmout pvm_barrier pvm_bcast pvm_freezegroup pvm_gather \
	pvm_getinst pvm_gettid 'pvm_grp*' pvm_gsdump pvm_gsize pvm_joingroup pvm_lvgroup pvm_reduce pvm_scatter
OTHERS  = '!pvm*_' $(foreach symbol,$(wordlist 2,99,$(GROUPS)),'!'$(symbol)) '*'
FILTERS = libgpvm3.so.3 libfpvm3.so.3 filters/libpvm3.so

# The daemon is the same executable as the console, by the name it is called. The task manager has one of its own: batches start sooner
# beside a small process.
PROGRAMS = pvm pvmd pvm-task-manager
HEADERS  = pvm3.h pvm3x.h pvmtev.h pvmproto.h fpvm3.h
ARCHIVES = libpvm3.a libgpvm3.a libfpvm3.a

# Sections of the manual, all written by pvm-docs; and the pages of the book, with their pictures and programs.
MANUAL   = man1 man3
DOCS     = share/doc/pvm3
PAGES    = $(wildcard docs/*.md docs/*/*.md docs/*/*.svg docs/programs/*)

# Within PREFIX: what shells, systemd and environment modules look for.
BASH   = share/bash-completion/completions/pvm
ZSH    = share/zsh/site-functions/_pvm
FISH   = share/fish/vendor_completions.d/pvm.fish
UNIT   = lib/systemd/user/pvmd.service
MODULE = share/modulefiles/pvm/$(RELEASE)

# Within PREFIX: PVM's own tree, in which makefiles of PVM programs find what they expect.
ROOT     = lib/pvm3
ROOT_LIB = $(ROOT)/lib/$(PVM_ARCH)
ROOT_BIN = $(ROOT)/bin/$(PVM_ARCH)
PODS     = $(ROOT)/kubernetes

INSTALLED = $(PROGRAMS:%=bin/%) $(HEADERS:%=include/%) $(ARCHIVES:%=lib/%) \
	lib/libpvm3.so.3 lib/libpvm3.so lib/libgpvm3.so.3 lib/libgpvm3.so lib/libfpvm3.so.3 lib/libfpvm3.so lib/pkgconfig/pvm3.pc \
	$(ROOT)/include $(ROOT)/lib/pvm $(ROOT)/lib/pvmd $(ROOT)/lib/pvmgetarch $(ROOT)/lib/aimk \
	$(ARCHIVES:%=$(ROOT_LIB)/%) $(ROOT_BIN)/pvmgs $(PAGES:docs/%=$(DOCS)/%) \
	$(ROOT)/conf/$(PVM_ARCH).def $(ROOT)/conf/created-dirs $(ROOT)/conf/manual-pages \
	$(PODS)/pod.sh $(PODS)/pvm.yaml $(BASH) $(ZSH) $(FISH) $(UNIT) $(MODULE)

# Folders that are PVM's alone, innermost first, and those it shares with others, outermost first.
DOCS_DIRS   = $(patsubst docs/%/,$(DOCS)/%,$(filter-out docs/,$(sort $(dir $(PAGES))))) $(DOCS)
OWN_DIRS    = $(DOCS_DIRS) $(ROOT_LIB) $(ROOT)/lib $(ROOT_BIN) $(ROOT)/bin $(ROOT)/conf $(PODS) $(ROOT)
SHARED_DIRS = / /bin /include /lib /lib/pkgconfig /share /share/doc /share/man $(MANUAL:%=/share/man/%) \
	$(foreach file,$(BASH) $(ZSH) $(FISH) $(UNIT) $(MODULE),$(patsubst %/,/%,$(dir $(patsubst %/,%,$(dir $(file)))) $(dir $(file))))

TO    = $(DESTDIR)$(PREFIX)
FILL  = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@PVM_ARCH@|$(PVM_ARCH)|' -e 's|@RELEASE@|$(RELEASE)|' \
	-e 's|@API_VERSION@|$(API_VERSION)|' -e 's|@LIBS_PRIVATE@|$(LIBS_PRIVATE)|'
COMPLETIONS = $(BUILD)/completions
BUILT = $(BUILD)/pvm $(BUILD)/pvm-task-manager $(COMPLETIONS)/fish $(BUILD)/libpvm3.so $(BUILD)/libpvm3.a $(FILTERS:%=$(BUILD)/%) $(BUILD)/man/man1/pvm.1

.PHONY: all build check docs book check-install install uninstall tarball deb help

all: build

build:
	$(CARGO) build --profile $(PROFILE) --locked $(PACKAGES)
	$(BUILD)/pvm-docs man $(BUILD)/man
	@mkdir -p $(COMPLETIONS)
	for shell in bash zsh fish; do $(BUILD)/pvm completions $$shell > $(COMPLETIONS)/$$shell || exit 1; done
	$(MAKE) --no-print-directory $(FILTERS:%=$(BUILD)/%)

# Libraries for the linker, whose calls are all in libpvm3.so.3. So libpvm3.so leaves out what the others have: whatever the order of
# the libraries, and with --as-needed, too, a program names those whose calls it makes.
$(BUILD)/libgpvm3.so.3: $(BUILD)/libpvm3.so packaging/filter.sh
	CC="$(CC)" packaging/filter.sh $< $(@F) libpvm3.so.3 $@ $(GROUPS)

$(BUILD)/libfpvm3.so.3: $(BUILD)/libpvm3.so packaging/filter.sh
	CC="$(CC)" packaging/filter.sh $< $(@F) libpvm3.so.3 $@ $(FORTRAN)

# Programs may open it by this name, too.
$(BUILD)/filters/libpvm3.so: $(BUILD)/libpvm3.so packaging/filter.sh
	mkdir -p $(@D)
	CC="$(CC)" packaging/filter.sh $< libpvm3.so.3 '$$ORIGIN/libpvm3.so.3' $@ $(OTHERS)

check:
	$(CARGO) test --workspace --locked

docs:
	$(CARGO) run --locked -p pvm-docs -- reference
	$(CARGO) run --locked -p pvm-docs -- compatibility
	$(CARGO) run --locked -p pvm-docs -- constants
	$(CARGO) run --locked -p pvm-docs -- measurements

# The pages of docs as a book, in target/book.
book:
	@command -v mdbook >/dev/null || { echo "make book: mdbook is missing, run 'cargo install mdbook'" >&2; exit 1; }
	mdbook build docs

check-install:
	packaging/check-install.sh

install:
	@for file in $(BUILT); do \
		[ -f "$$file" ] || { echo "make install: $$file is missing, run 'make' first" >&2; exit 1; }; \
	done
	@created=; \
	for dir in $(SHARED_DIRS); do \
		[ -d "$(TO)$$dir" ] && continue; \
		mkdir -p "$(TO)$$dir" && created="$$created $$dir" || exit 1; \
	done; \
	mkdir -p "$(TO)/$(ROOT_LIB)" "$(TO)/$(ROOT_BIN)" "$(TO)/$(ROOT)/conf" "$(TO)/$(PODS)" $(DOCS_DIRS:%="$(TO)/%") && \
	for dir in $$created; do echo $$dir; done >> "$(TO)/$(ROOT)/conf/created-dirs"
	$(INSTALL) -m 755 -s --strip-program="$(STRIP)" $(BUILD)/pvm $(BUILD)/pvm-task-manager "$(TO)/bin"
	@cd "$(TO)/bin" && { ln -f pvm pvmd 2>/dev/null || ln -sfT pvm pvmd; }
	cd libpvm/c/include && $(INSTALL) -m 644 $(HEADERS) "$(TO)/include"
	$(INSTALL) -m 755 -s --strip-program="$(STRIP)" $(BUILD)/libpvm3.so "$(TO)/lib/libpvm3.so.3"
	@rm -f "$(TO)/lib/libpvm3.so"
	$(INSTALL) -m 755 $(FILTERS:%=$(BUILD)/%) "$(TO)/lib"
	$(INSTALL) -m 644 $(BUILD)/libpvm3.a "$(TO)/lib"
	$(STRIP) --strip-debug "$(TO)/lib/libpvm3.a"
	@cd "$(TO)/lib" && for lib in libgpvm3 libfpvm3; do ln -sfT $$lib.so.3 $$lib.so || exit 1; done
	@cd "$(TO)/lib" && for lib in libgpvm3 libfpvm3; do ln -sfT libpvm3.a $$lib.a || exit 1; done
	run_path="$(RUN_PATH)" && \
	$(FILL) -e "s|@RUN_PATH@|$$run_path|" packaging/pvm3.pc.in > "$(TO)/lib/pkgconfig/pvm3.pc"
	$(INSTALL) -m 644 $(COMPLETIONS)/bash "$(TO)/$(BASH)"
	$(INSTALL) -m 644 $(COMPLETIONS)/zsh "$(TO)/$(ZSH)"
	$(INSTALL) -m 644 $(COMPLETIONS)/fish "$(TO)/$(FISH)"
	$(FILL) packaging/pvmd.service.in > "$(TO)/$(UNIT)"
	$(FILL) packaging/modulefile.in > "$(TO)/$(MODULE)"
	$(FILL) packaging/arch.def.in > "$(TO)/$(ROOT)/conf/$(PVM_ARCH).def"
	cd packaging && $(INSTALL) -m 755 pvmgetarch aimk "$(TO)/$(ROOT)/lib"
	cd packaging/kubernetes && $(INSTALL) -m 755 pod.sh "$(TO)/$(PODS)" && $(INSTALL) -m 644 pvm.yaml "$(TO)/$(PODS)"
	@for section in $(MANUAL); do \
		$(INSTALL) -m 644 $(BUILD)/man/$$section/* "$(TO)/share/man/$$section" || exit 1; \
		cd $(BUILD)/man && for page in $$(grep -l @DOCS@ $$section/*); do \
			sed 's|@DOCS@|$(PREFIX)/$(DOCS)|' $$page > "$(TO)/share/man/$$page" || exit 1; \
		done; \
		cd - >/dev/null; \
	done
	@for page in $(PAGES:docs/%=%); do $(INSTALL) -m 644 docs/$$page "$(TO)/$(DOCS)/$$page" || exit 1; done
	@pages=$$(cat "$(TO)/$(ROOT)/conf/manual-pages" 2>/dev/null; cd $(BUILD)/man && ls -d $(MANUAL:%=%/*)) && \
	printf '%s\n' $$pages | sort -u > "$(TO)/$(ROOT)/conf/manual-pages"
	@ln -sfT ../../include "$(TO)/$(ROOT)/include"
	@cd "$(TO)/$(ROOT)/lib" && for name in pvm pvmd; do ln -sfT ../../../bin/$$name $$name || exit 1; done
	@ln -sfT ../../../../bin/pvm "$(TO)/$(ROOT_BIN)/pvmgs"
	@cd "$(TO)/$(ROOT_LIB)" && for name in $(ARCHIVES); do ln -sfT ../../../$$name $$name || exit 1; done
	@echo "Installed in $(TO). Programs built with \`pkg-config --libs pvm3\` find the libraries there;"
	@echo "for others run ldconfig, or set LD_LIBRARY_PATH, if the loader does not search $(PREFIX)/lib."

# What install put there and nothing else: a folder goes only if it is empty and was not there before.
uninstall:
	@created=$$(cat "$(TO)/$(ROOT)/conf/created-dirs" 2>/dev/null | sort -r); \
	for page in $$(cat "$(TO)/$(ROOT)/conf/manual-pages" 2>/dev/null); do rm -f "$(TO)/share/man/$$page" || exit 1; done; \
	for file in $(INSTALLED); do rm -f "$(TO)/$$file" || exit 1; done; \
	for dir in $(OWN_DIRS:%=/%) $$created; do rmdir "$(TO)$$dir" 2>/dev/null; done; \
	echo "Removed from $(TO)."

# Archives of what `make` has built, in DIST.
tarball:
	packaging/tarball.sh "$(BUILD)" "$(DIST)" "$(RELEASE)"

deb:
	packaging/deb.sh "$(BUILD)" "$(DIST)" "$(RELEASE)"

help:
	@echo "make                      build everything (cargo build)"
	@echo "make install              install under PREFIX; does not build, so that root need not"
	@echo "make uninstall            remove what install put there, with the same PREFIX and DESTDIR"
	@echo "make check                run all tests"
	@echo "make docs                 update the generated tables and pages in docs"
	@echo "make book                 build the book of docs in target/book (needs mdbook)"
	@echo "make tarball              pack what is built for any folder: DIST/pvm-$(RELEASE)-….tar.gz"
	@echo "make deb                  pack what is built for Debian: DIST/*.deb (needs debhelper)"
	@echo "make check-install        install into a temporary folder, use it, uninstall it"
	@echo ""
	@echo "PREFIX=$(PREFIX)          where programs will look for PVM; absolute"
	@echo "DESTDIR=$(DESTDIR)                   put before PREFIX while copying, for packages"
	@echo "DIST=$(DIST)               where make tarball and make deb put what they make"
	@echo "PROFILE=$(PROFILE)           cargo's profile; dev builds sooner, for tests"
	@echo "STRIP=$(STRIP)               what removes debug sections; STRIP=true keeps them"
	@echo "PVM_ARCH=$(PVM_ARCH)          name of the folders for this machine's libraries and programs"
