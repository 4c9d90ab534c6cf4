# Builds, installs and removes PVM for C and Fortran users. `make help` says how.

PREFIX   = /usr/local
DESTDIR  =
CARGO    = cargo
INSTALL  = install

# Where cargo leaves what it built. The C libraries are built by themselves: built along with what Rust programs link they would not be
# optimised across crates, which costs short messages a quarter. In a folder of their own, or each build would undo the other.
TARGET   = $(or $(CARGO_TARGET_DIR),target)
BUILD    = $(TARGET)/release
LIBRARY  = $(TARGET)/libraries/release

PVM_ARCH    := $(shell sh packaging/pvmgetarch)
RELEASE     := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
API_VERSION := $(shell sed -n 's/^.define PVM_VER *"\(.*\)"/\1/p' libpvm/include/pvm3.h)

# What a program that links libpvm3.a needs besides, as `rustc --print native-static-libs` lists it; compilers add
# libgcc and libc by themselves. From glibc 2.34 on, all but libm are empty.
LIBS_PRIVATE = -lutil -lrt -lpthread -lm -ldl

PROGRAMS = pvm pvmd pvm-task-manager
HEADERS  = pvm3.h pvm3x.h pvmtev.h pvmproto.h fpvm3.h
ARCHIVES = libpvm3.a libgpvm3.a libfpvm3.a

# Sections of the manual, all written by pvm-docs.
MANUAL   = man1 man3

# Within PREFIX: PVM's own tree, in which makefiles of PVM programs find what they expect.
ROOT     = lib/pvm3
ROOT_LIB = $(ROOT)/lib/$(PVM_ARCH)
ROOT_BIN = $(ROOT)/bin/$(PVM_ARCH)

INSTALLED = $(PROGRAMS:%=bin/%) $(HEADERS:%=include/%) $(ARCHIVES:%=lib/%) \
	lib/libpvm3.so.3 lib/libpvm3.so lib/libgpvm3.so.3 lib/libgpvm3.so lib/libfpvm3.so lib/pkgconfig/pvm3.pc \
	$(ROOT)/include $(ROOT)/lib/pvm $(ROOT)/lib/pvmd $(ROOT)/lib/pvmgetarch $(ROOT)/lib/aimk \
	$(ARCHIVES:%=$(ROOT_LIB)/%) $(ROOT)/conf/$(PVM_ARCH).def $(ROOT)/conf/created-dirs $(ROOT)/conf/manual-pages

# Folders that are PVM's alone, innermost first, and those it shares with others, outermost first.
OWN_DIRS    = $(ROOT_LIB) $(ROOT)/lib $(ROOT_BIN) $(ROOT)/bin $(ROOT)/conf $(ROOT)
SHARED_DIRS = / /bin /include /lib /lib/pkgconfig /share /share/man $(MANUAL:%=/share/man/%)

TO    = $(DESTDIR)$(PREFIX)
FILL  = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@PVM_ARCH@|$(PVM_ARCH)|' -e 's|@RELEASE@|$(RELEASE)|' \
	-e 's|@API_VERSION@|$(API_VERSION)|' -e 's|@LIBS_PRIVATE@|$(LIBS_PRIVATE)|'
BUILT = $(PROGRAMS:%=$(BUILD)/%) $(LIBRARY)/libpvm3.so $(LIBRARY)/libpvm3.a $(LIBRARY)/libgpvm3.so.3 \
	$(BUILD)/man/man1/pvm.1

.PHONY: all build check docs check-install install uninstall help

all: build

build:
	$(CARGO) build --release --locked -p pvm-console -p pvmd -p pvm-task-manager -p pvm-docs
	$(CARGO) rustc --release --locked -p libpvm --lib --crate-type cdylib,staticlib --target-dir $(TARGET)/libraries
	$(BUILD)/pvm-docs man $(BUILD)/man
	$(MAKE) --no-print-directory $(LIBRARY)/libgpvm3.so.3

# Programs linked with PVM's group library ask the loader for libgpvm3.so.3. It is empty and needs libpvm3.so.3: a
# mere link to that would not do, since ldconfig knows libraries by the name they have inside.
$(LIBRARY)/libgpvm3.so.3: $(LIBRARY)/libpvm3.so
	$(CC) -shared -nostdlib -Wl,-soname,libgpvm3.so.3 -Wl,--no-as-needed -o $@ $<

check:
	$(CARGO) test --workspace --locked

docs:
	$(CARGO) run --locked -p pvm-docs -- compatibility

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
	mkdir -p "$(TO)/$(ROOT_LIB)" "$(TO)/$(ROOT_BIN)" "$(TO)/$(ROOT)/conf" && \
	for dir in $$created; do echo $$dir; done >> "$(TO)/$(ROOT)/conf/created-dirs"
	cd $(BUILD) && $(INSTALL) -m 755 $(PROGRAMS) "$(TO)/bin"
	cd libpvm/include && $(INSTALL) -m 644 $(HEADERS) "$(TO)/include"
	$(INSTALL) -m 755 $(LIBRARY)/libpvm3.so "$(TO)/lib/libpvm3.so.3"
	$(INSTALL) -m 755 $(LIBRARY)/libgpvm3.so.3 "$(TO)/lib"
	$(INSTALL) -m 644 $(LIBRARY)/libpvm3.a "$(TO)/lib"
	@cd "$(TO)/lib" && for lib in libpvm3 libgpvm3 libfpvm3; do ln -sfT libpvm3.so.3 $$lib.so || exit 1; done
	@cd "$(TO)/lib" && for lib in libgpvm3 libfpvm3; do ln -sfT libpvm3.a $$lib.a || exit 1; done
	$(FILL) packaging/pvm3.pc.in > "$(TO)/lib/pkgconfig/pvm3.pc"
	$(FILL) packaging/arch.def.in > "$(TO)/$(ROOT)/conf/$(PVM_ARCH).def"
	cd packaging && $(INSTALL) -m 755 pvmgetarch aimk "$(TO)/$(ROOT)/lib"
	@for section in $(MANUAL); do \
		$(INSTALL) -m 644 $(BUILD)/man/$$section/* "$(TO)/share/man/$$section" || exit 1; \
	done
	@pages=$$(cat "$(TO)/$(ROOT)/conf/manual-pages" 2>/dev/null; cd $(BUILD)/man && ls -d $(MANUAL:%=%/*)) && \
	printf '%s\n' $$pages | sort -u > "$(TO)/$(ROOT)/conf/manual-pages"
	@ln -sfT ../../include "$(TO)/$(ROOT)/include"
	@cd "$(TO)/$(ROOT)/lib" && for name in pvm pvmd; do ln -sfT ../../../bin/$$name $$name || exit 1; done
	@cd "$(TO)/$(ROOT_LIB)" && for name in $(ARCHIVES); do ln -sfT ../../../$$name $$name || exit 1; done
	@echo "Installed in $(TO). If the loader does not search $(PREFIX)/lib, run ldconfig or set LD_LIBRARY_PATH."

# What install put there and nothing else: a folder goes only if it is empty and was not there before.
uninstall:
	@created=$$(cat "$(TO)/$(ROOT)/conf/created-dirs" 2>/dev/null | sort -r); \
	for page in $$(cat "$(TO)/$(ROOT)/conf/manual-pages" 2>/dev/null); do rm -f "$(TO)/share/man/$$page" || exit 1; done; \
	for file in $(INSTALLED); do rm -f "$(TO)/$$file" || exit 1; done; \
	for dir in $(OWN_DIRS:%=/%) $$created; do rmdir "$(TO)$$dir" 2>/dev/null; done; \
	echo "Removed from $(TO)."

help:
	@echo "make                      build everything (cargo build --release)"
	@echo "make install              install under PREFIX; does not build, so that root need not"
	@echo "make uninstall            remove what install put there, with the same PREFIX and DESTDIR"
	@echo "make check                run all tests"
	@echo "make docs                 bring the tables of docs/compatibility.md up to date"
	@echo "make check-install        install into a temporary folder, use it, uninstall it"
	@echo ""
	@echo "PREFIX=$(PREFIX)          where programs will look for PVM; absolute"
	@echo "DESTDIR=$(DESTDIR)                   put before PREFIX while copying, for packages"
	@echo "PVM_ARCH=$(PVM_ARCH)          name of the folders for this machine's libraries and programs"
